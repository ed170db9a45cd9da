(* SPDX-License-Identifier: MIT *)
(* An echo server with a thread for each connection: echo PORT *)
let serve client =
  let bytes = Bytes.create 4096 in
  let rec go () =
    match Unix.read client bytes 0 4096 with
    | 0 -> Unix.close client
    | n -> ignore (Unix.write client bytes 0 n); go ()
  in
  try go () with Unix.Unix_error _ -> Unix.close client

let () =
  let s = Unix.socket Unix.PF_INET Unix.SOCK_STREAM 0 in
  Unix.setsockopt s Unix.SO_REUSEADDR true;
  Unix.bind s (Unix.ADDR_INET (Unix.inet_addr_loopback, int_of_string Sys.argv.(1)));
  Unix.listen s 1000;
  while true do
    ignore (Thread.create serve (fst (Unix.accept s)))
  done
