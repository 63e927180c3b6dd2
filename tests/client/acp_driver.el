;;; acp_driver.el --- drives `fairlead acp' with acp.el  -*- lexical-binding: t; -*-

;; emacs -Q --batch -L DIRECTORY-OF-ACP.EL -l acp_driver.el DIRECTORY COMMAND ARGUMENT...
;; Prints what was said, the title of each permission, and why the turn ended, one JSON value a line.

;;; Code:

(require 'acp)

(defun driver-print (name value)
  "Print VALUE under NAME."
  (princ (concat (json-serialize (vector name value)) "\n")))

(let* ((directory (pop command-line-args-left))
       (program (pop command-line-args-left))
       (client (acp-make-client :command program :command-params command-line-args-left
                                :context-buffer (current-buffer)))
       (text ""))
  (setq command-line-args-left nil)
  (acp-subscribe-to-notifications
   :client client
   :on-notification
   (lambda (notification)
     (let-alist notification
       (when (equal .params.update.sessionUpdate "agent_message_chunk")
         (setq text (concat text .params.update.content.text))))))
  (acp-subscribe-to-requests
   :client client
   :on-request
   (lambda (request)
     (let-alist request
       (driver-print "permission" .params.toolCall.title)
       (acp-send-response
        :client client
        :response (acp-make-session-request-permission-response :request-id .id :option-id "allow")))))
  (let-alist (acp-send-request :client client :sync t
                               :request (acp-make-initialize-request :protocol-version 1))
    (driver-print "agent" .agentInfo.name))
  (let ((session (map-elt (acp-send-request
                           :client client :sync t
                           :request (acp-make-session-new-request :cwd directory :mcp-servers []))
                          'sessionId)))
    (let-alist (acp-send-request
                :client client :sync t
                :request (acp-make-session-prompt-request
                          :session-id session :prompt [((type . "text") (text . "think plan tool done"))]))
      (driver-print "stop" .stopReason))
    (driver-print "text" text)
    (let-alist (acp-send-request :client client :sync t
                                 :request (acp-make-session-list-request :cwd directory))
      (driver-print "listed" (length .sessions))))
  (acp-shutdown :client client))

;;; acp_driver.el ends here
