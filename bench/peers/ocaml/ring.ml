(* SPDX-License-Identifier: MIT *)

(* ocaml-ring: Lwt threads in a ring. Each waits for a promise, and its neighbour resolves
   it. Lwt_mvar and the like are made of promises, with queues besides. [wakeup] would run
   the next thread on top of the stack of this one; [wakeup_later] does not. No thread
   waits for the outside, so Lwt's core runs them all, without Lwt_main. *)

open Lwt.Infix

let threads = 503

let pass boxes finish i =
  let next = (i + 1) mod threads in
  let rec loop () =
    let token, box = Lwt.wait () in
    boxes.(i) <- box;
    token >>= fun token ->
    if token = 0 then begin
      Lwt.wakeup_later finish (i + 1);
      Lwt.return_unit
    end
    else begin
      Lwt.wakeup_later boxes.(next) (token - 1);
      loop ()
    end
  in
  loop ()

let () =
  let passes = Peer.argument "PASSES" in
  (* 8 MiB, so that data of one turn of the ring does not get old. *)
  Gc.set { (Gc.get ()) with minor_heap_size = 1 lsl 20 };
  let finished, finish = Lwt.wait () in
  let boxes = Array.make threads (snd (Lwt.wait ())) in
  for i = 0 to threads - 1 do
    Lwt.async (fun () -> pass boxes finish i)
  done;

  let began = Peer.now () in
  Lwt.wakeup_later boxes.(0) passes;
  let number =
    match Lwt.poll finished with
    | Some number -> number
    | None -> Peer.fail "the token is lost"
  in
  let took = Peer.now () -. began in

  Printf.printf "%.6f\n%d\n" took number
