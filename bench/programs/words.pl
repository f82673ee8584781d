# perl: hashes of arrays, string building, sorting, regular expressions. Prints a checksum.
# Measures an interpreter whose every value is a small block, with strings that grow by realloc.
use strict;
use warnings;

my $count = shift // 250_000;
my $state = 12345;
sub next_number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state >> 8 }

my %groups;
for my $i (1 .. $count) {
    my $word = join '', map { chr(97 + next_number() % 26) } 1 .. 3 + $i % 5;
    push @{ $groups{ substr $word, 0, 3 } }, $word;
}
my $text = '';
for my $key (sort keys %groups) {
    my @words = sort { length $a <=> length $b || $a cmp $b } @{ $groups{$key} };
    $text .= "$key:" . join(',', @words) . "\n";
    delete $groups{$key} if @words % 2;
}
my $long = () = $text =~ /[aeiou]{2,}[^aeiou,]/g;
my %seen;
$seen{$_}++ for split /[:,\n]/, $text;
my $check = 0;
$check = ($check * 31 + length($_) * $seen{$_}) % 1000003 for sort keys %seen;
print scalar(keys %groups), ' ', length($text), " $long $check\n";
