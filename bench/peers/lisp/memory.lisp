;;;; SPDX-License-Identifier: MIT
;;;; The memory workload with tasks of TAGBODY and ECASE: a closure and the cell with its
;;;; state. The collector runs before each reading.

(declaim (type fixnum *ended*))
(sb-ext:defglobal *ended* 0)

(defun blocker ()
  (task
    (yield)
    (incf *ended*)))

(defun resident ()
  (sb-ext:gc :full t)
  (with-open-file (statm "/proc/self/statm")
    (read statm)
    (* (the fixnum (read statm)) (the fixnum (sb-posix:getpagesize)))))

(defun main ()
  (destructuring-bind (threads) (arguments "THREADS")
    (declare (type fixnum threads))
    (when (> threads (ash (sb-ext:dynamic-space-size) -5))
      (fail "not enough memory"))
    (let* ((before (resident))
           (all (make-array threads)))
      (dotimes (i threads)
        (let ((task (blocker)))
          (funcall (the function task))
          (setf (svref all i) task)))
      (let ((grown (max 0 (- (the fixnum (resident)) (the fixnum before)))))
        (loop for task across all do (funcall (the function task)))
        (print-result (/ grown threads 1d0) *ended*)))))
