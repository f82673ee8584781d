# A walk through perl: hashes, strings that grow, sorting, regular expressions, closures, threads-free forks.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use List::Util qw(sum shuffle reduce);
use Storable qw(freeze thaw);

srand(42);
my $state = 12345;
sub next_number { $state = ($state * 1103515245 + 12345) % 2147483648; return $state >> 8 }
sub show {
    my ($name, @facts) = @_;
    print "$name: ", md5_hex(join "|", @facts), " ", substr(join(" ", @facts), 0, 60), "\n";
}

my %table;
for my $i (1 .. 150000) {
    $table{"key" . next_number() % 60000} .= chr(65 + $i % 26) x ($i % 11);
    delete $table{"key" . next_number() % 60000} if $i % 4 == 0;
}
show("hash", scalar(keys %table), map { "$_=$table{$_}" } sort keys %table);

my $grown = "";
for my $i (1 .. 60000) { $grown .= pack("N", $i) . ("." x ($i % 13)); substr($grown, 0, 5) = "" if $i % 3 == 0 }
show("string", length $grown, md5_hex($grown));

my @records = map { { id => $_, name => "n" . next_number(), list => [ 1 .. $_ % 20 ] } } 1 .. 30000;
my @sorted = sort { $a->{name} cmp $b->{name} || $a->{id} <=> $b->{id} } @records;
show("sort", map { $_->{id} . "/" . scalar @{ $_->{list} } } @sorted);
my $copy = thaw(freeze(\@sorted));
show("storable", map { $_->{name} } @$copy[ 0 .. 500 ]);

my $text = join " ", map { join "", map { chr(97 + next_number() % 8) } 1 .. 1 + next_number() % 12 } 1 .. 40000;
my %seen;
$seen{$1}++ while $text =~ /\b((?:ab|cd|e)+[f-h]*)\b/g;
(my $changed = $text) =~ s/([a-c])([d-h]+)/$2$1\x{4e2d}/g;
{ no warnings; utf8::encode($changed); }
show("regex", scalar(keys %seen), length $changed, md5_hex($changed));
show("split", sum(map { length } split /[ a]+/, $text), scalar reverse(substr $text, 0, 40));

my @closures = map { my $n = $_; my @held = (1 .. $n % 30); sub { $n + @held } } 1 .. 20000;
show("closures", sum map { $_->() } @closures);
undef @closures;

my @answers;
for my $child (1 .. 8) {
    pipe(my $reader, my $writer) or die $!;
    my $pid = fork() // die $!;
    if ($pid == 0) {
        close $reader;
        my %mine = map { $_ => "x" x ($_ % 100) } 1 .. 20000;
        print {$writer} sum(map { length } values %mine) + $child;
        close $writer;
        exit $child;
    }
    close $writer;
    push @answers, <$reader>;
    waitpid $pid, 0;
    push @answers, $? >> 8;
}
show("fork", @answers);
show("exec", `echo from a shell; $^X -e 'print join ",", map { \$_ ** 2 } 1 .. 9'`);

my @lines = map { sprintf "%07d %s", next_number() % 9999999, "y" x (next_number() % 200) } 1 .. 40000;
open my $out, ">", "lines.txt" or die $!;
print {$out} "$_\n" for @lines;
close $out or die $!;
open my $in, "<", "lines.txt" or die $!;
my @back = sort <$in>;
show("files", scalar @back, $back[0], md5_hex(join "", @back));
local $/ = undef;
seek $in, 0, 0;
show("slurp", md5_hex(<$in>));
