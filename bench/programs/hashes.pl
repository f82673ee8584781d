# perl: hashes of hashes that are filled, changed, copied and deleted. Prints a checksum.
# Measures an interpreter whose keys, values and tables are all blocks of their own, small ones but for the tables, which
# double; words.pl sorts and matches as well.
use strict;
use warnings;

my $count = shift // 200_000;
my $state = 54321;
sub next_number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state >> 7 }

my (%index, $check);
for my $i (1 .. $count) {
    my $number = next_number();
    $index{ $number % 997 }{"key-$number"} = { number => $number, name => "n$i", list => [ $i, $number ] };
    delete $index{ next_number() % 997 } if $i % 500 == 0;
}
for my $round (1 .. 3) {
    my %copy = map { $_ => { %{ $index{$_} } } } grep { exists $index{$_} } 1 .. 996;
    for my $part (values %copy) {
        delete $part->{$_} for grep { $part->{$_}{number} % ($round + 1) == 0 } keys %$part;
        $check += keys %$part;
    }
}
print scalar(keys %index), " $check\n";
