import { abortedByError, type CollectiveError } from '@shardwise/core/spec';
import { parsePortMessage } from './port-message.ts';

/** The port to whoever started the ranks. They can end the transport over it, and nothing else. */
export class StarterPort {
  readonly #port: MessagePort;

  constructor(port: MessagePort, fail: (error: CollectiveError) => void) {
    this.#port = port;
    port.addEventListener('message', ({ data }) => {
      const message = parsePortMessage(data);
      if (message?.kind === 'abort') fail(abortedByError(message));
    });
    port.start();
  }

  close(): void {
    this.#port.close();
  }
}
