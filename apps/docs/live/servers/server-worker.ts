// The parameter server of a training in the page. Each worker of the training reaches it over a port.
import { dist, optim, setRank } from 'shardwise/browser';
import { RefusedError } from '@shardwise/core/spec';
import { wasm } from '@shardwise/backend-cpu/wasm';
import { type AnswerOnPort, isPortMessage, type RequestOnPort } from './server-task.ts';

const ready = (async () => {
  setRank({ device: await wasm({ byteLength: 32 << 20 }) });
  return dist.servers.createParameterServer({
    server: 0,
    optimizers: { AdamW: (groups) => new optim.AdamW(groups) },
  });
})();
let clients = 0;

globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  if (!isPortMessage(data)) return;
  const { requestPort } = data;
  const client = { number: clients, closed: new AbortController().signal };
  clients += 1;
  const answer = async ({ number, parts }: RequestOnPort): Promise<AnswerOnPort> => {
    try {
      const { handler } = await ready;
      const answers = await handler(parts, client);
      return { number, parts: answers.map((part) => new Uint8Array(part)) };
    } catch (error) {
      const name = error instanceof RefusedError ? error.fields['refusal'] : undefined;
      return {
        number,
        refusal: typeof name === 'string' ? name : 'failed',
        text: error instanceof Error ? error.message : String(error),
      };
    }
  };
  requestPort.addEventListener('message', (event: MessageEvent<RequestOnPort>) => {
    void answer(event.data).then((message) => requestPort.postMessage(message));
  });
  requestPort.start();
});
