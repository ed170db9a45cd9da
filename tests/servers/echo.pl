# SPDX-License-Identifier: MIT
# An echo server with a thread for each connection: echo.pl PORT
use strict;
use warnings;
use threads;
use IO::Socket::INET;

my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0],
	Listen => 1000, ReuseAddr => 1) or die $!;
while (my $client = $listener->accept) {
	threads->create(sub {
		my $client = shift;
		syswrite $client, $_ while sysread $client, $_, 4096;
	}, $client)->detach;
}
