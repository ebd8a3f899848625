import { once } from 'node:events';
import { argv, exit } from 'node:process';
import { isMainThread, Worker } from 'node:worker_threads';
import { cpu } from '@shardwise/backend-cpu';
import { arange, setRank } from '@shardwise/core';

// Computes by ONNX Runtime, in the main thread or in a worker.
if (isMainThread && argv[2] === 'worker') {
  await once(new Worker(new URL(import.meta.url)), 'exit');
} else {
  setRank({ device: await cpu({ products: 'onnxruntime' }) });
  const x = arange(0, 4, 1, 'f32').reshape([2, 2]);
  const [first] = await x.matmul(x).data();
  if (first !== 2) exit(1);
}
