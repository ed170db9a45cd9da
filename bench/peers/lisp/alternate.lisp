;;;; SPDX-License-Identifier: MIT
;;;; The alternate workload with tasks of TAGBODY and ECASE.

(declaim (type fixnum *turns*))
(sb-ext:defglobal *turns* 0)

(defun alternator (parity yields)
  (declare (type fixnum yields) (type bit parity))
  (task
   again
     (when (zerop yields) (go done))
     (decf yields)
     (unless (= (logand *turns* 1) parity) (error "out of turn"))
     (incf *turns*)
     (yield)
     (go again)
   done))

(defun main ()
  (destructuring-bind (repetitions yields) (arguments "REPETITIONS" "YIELDS")
    (declare (type fixnum repetitions yields))
    (let ((start (now)))
      (loop repeat repetitions
            do (let ((a (alternator 0 yields))
                     (b (alternator 1 yields)))
                 (declare (type function a b))
                 (loop for a-goes-on = (funcall a)
                       for b-goes-on = (funcall b)
                       while (and a-goes-on b-goes-on))))
      (print-result (/ (- (now) start) 1d9) *turns*))))
