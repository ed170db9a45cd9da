%% SPDX-License-Identifier: MIT

%% erlang-ring: processes in a ring, which send messages. The token is the number itself,
%% one word that needs no heap.
-module(bench_ring).
-export([start/0]).

-define(PROGRAM, "erlang-ring").
-define(THREADS, 503).

pass(End, Number) ->
    receive
        {next, Next} ->
            End ! arrived,
            pass(End, Number, Next)
    end.

pass(End, Number, Next) ->
    receive
        0 ->
            End ! {number, Number};
        Token ->
            Next ! Token - 1,
            pass(End, Number, Next)
    end.

start() ->
    Passes = bench_peer:argument(?PROGRAM, "PASSES"),
    End = self(),
    Ring = [spawn(fun() -> pass(End, Number) end) || Number <- lists:seq(1, ?THREADS)],
    First = hd(Ring),
    [Thread ! {next, Next} || {Thread, Next} <- lists:zip(Ring, tl(Ring) ++ [First])],
    [receive arrived -> ok end || _ <- Ring],

    Began = erlang:monotonic_time(),
    First ! Passes,
    Number = receive {number, N} -> N end,
    Took = erlang:monotonic_time() - Began,

    bench_peer:print(bench_peer:seconds(Took), Number).
