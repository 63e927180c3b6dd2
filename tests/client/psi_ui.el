;;; psi_ui.el --- talks with `fairlead rpc' through psi's own UI -*- lexical-binding: t -*-

;; Run in batch mode with psi's UI on the load path: set `talk-backend', then call `talk' with steps. It prints
;; what the UI asks, and at the end of each step what its buffer shows.

;;; Code:

(require 'psi)
(require 'seq)

(defvar talk-backend nil "The backend: a program and its arguments.")
(defvar talk-choices nil "What pickers are answered with, in their order; `quit' leaves one.")
(defconst talk-patience 20 "Seconds until something that does not happen is an error.")

(defun talk-say (format &rest values)
  (send-string-to-terminal (encode-coding-string (concat (apply #'format format values) "\n") 'utf-8)))

;; Idle timers don't run in batch mode, and pickers are opened by one.
(advice-add 'run-with-idle-timer :override
            (lambda (seconds _repeat function &rest values)
              (apply #'run-at-time seconds nil function values)))

(advice-add 'completing-read :override
            (lambda (prompt choices &rest _)
              (let ((labels (mapcar (lambda (each) (if (consp each) (car each) each)) (append choices nil)))
                    (wanted (pop talk-choices)))
                (talk-say "? %s%S" prompt labels)
                (when (eq wanted 'quit) (signal 'quit nil))
                (or (seq-find (lambda (label) (string-prefix-p wanted label)) labels)
                    (error "No choice begins with %s" wanted)))))

(advice-add 'y-or-n-p :override (lambda (prompt) (talk-say "? %s" prompt) t))

(defun talk-until (holds what)
  "Wait until HOLDS, in the UI's buffer."
  (with-timeout (talk-patience (error "It did not happen: %s\n%s" what (buffer-string)))
    (while (not (funcall holds))
      (accept-process-output nil 0.02))))

(defun talk-state () (psi-emacs-state-run-state psi-emacs--state))

(defun talk-shows (text) (string-match-p (regexp-quote text) (buffer-string)))

(defun talk (&rest steps)
  "Do STEPS: (TEXT SHOWN...) types TEXT and waits until each SHOWN is there; a function is called."
  (let* ((psi-emacs-command talk-backend)
         (buffer (psi-emacs-open-buffer "*talk*" default-directory)))
    (with-current-buffer buffer
      (talk-until (lambda () (eq 'ready (psi-emacs-state-transport-state psi-emacs--state))) "ready")
      (talk-until (lambda () (psi-emacs-state-projection-footer psi-emacs--state)) "a footer")
      (dolist (step steps)
        (if (functionp step)
            (funcall step)
          (let ((inhibit-read-only t))
            (psi-emacs--replace-input-text (car step)))
          (psi-emacs-send-from-buffer nil)
          (dolist (text (cdr step))
            (talk-until (lambda () (talk-shows text)) text)))
        (talk-until (lambda () (not (memq (talk-state) '(streaming interrupt_pending)))) "idle")
        (talk-say "=== %S" (if (functionp step) 'key (car step)))
        (talk-say "%s" (buffer-substring-no-properties (point-min) (point-max)))))
    (kill-buffer buffer)))

;;; psi_ui.el ends here
