(* SPDX-License-Identifier: MIT *)

(* ocaml-memory: Lwt threads, which wait for a promise each. A thread is the promise and
   the closure that runs next. *)

open Lwt.Infix

let () =
  let threads = Peer.argument "THREADS" in
  Peer.need_memory threads 200;
  let ended = ref 0 in
  let start () =
    let resumed, resume = Lwt.wait () in
    Lwt.async (fun () ->
        resumed >|= fun () ->
        incr ended);
    resume
  in

  Gc.compact ();
  let before = Peer.resident () in
  let resume = Array.init threads (fun _ -> start ()) in
  Gc.compact ();
  let bytes = max 0 (Peer.resident () - before) in

  Array.iter (fun r -> Lwt.wakeup r ()) resume;
  if !ended <> threads then Peer.fail "not all have ended";
  Printf.printf "%d\n%d\n" (bytes / threads) !ended
