import { decode } from './decode.ts';
import type { DecodedImage, EncodedImage } from './images.ts';

const files: readonly EncodedImage[] = await (await fetch('/tasks')).json();
const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });

/** Decodes a file in a worker. */
function inWorker(file: EncodedImage): Promise<DecodedImage> {
  const { promise, resolve, reject } = Promise.withResolvers<DecodedImage>();
  worker.addEventListener('message', ({ data }) => resolve(data), { once: true });
  worker.addEventListener('error', ({ message }) => reject(new Error(message)), { once: true });
  worker.postMessage(file);
  return promise;
}

const results: { page: DecodedImage; worker: DecodedImage }[] = [];
for (const file of files) results.push({ page: await decode(file), worker: await inWorker(file) });
await fetch('/result', { method: 'POST', body: JSON.stringify(results) });
