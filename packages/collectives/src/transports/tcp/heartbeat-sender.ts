import { Worker } from 'node:worker_threads';
import type { Hello } from '../../wire/hello.ts';

/** What the thread that sends heartbeats needs to know. */
export interface HeartbeatTask {
  readonly targets: readonly {
    readonly host: string;
    readonly port: number;
    readonly hello: Hello;
  }[];
  readonly secret: string;
  readonly encrypt: boolean;
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/**
 * Sends heartbeats from a thread of its own, because the rank's thread is blocked while it computes, and a rank that
 * computes is not lost. Returns a function that stops them. `onConnected` is called when all peers can hear the
 * heartbeats, and `onError` if the thread cannot connect.
 */
export function startHeartbeats(
  task: HeartbeatTask,
  onConnected: () => void,
  onError: (error: Error) => void,
): () => void {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const url = new URL(`./heartbeat-thread.${extension}`, import.meta.url);
  const worker = new Worker(url, { workerData: task });
  worker.once('message', onConnected).on('error', onError);
  worker.unref();
  return () => {
    worker.off('error', onError).on('error', () => {});
    worker.terminate().catch(onError);
  };
}
