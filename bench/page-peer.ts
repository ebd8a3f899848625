import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { PageModel } from './page-models.ts';

const about = z.object({ about: z.string() });
const answer = z.union([
  z.object({
    ms: z.array(z.number().positive()),
    /** The mean time on the processor, which other programs do not change much. */
    cpuMs: z.number(),
    losses: z.array(z.number()),
  }),
  z.object({ reason: z.string() }),
]);

/** A request to a contestant. */
export type PageRequest = {
  readonly runs: number;
  /** No run begins after this number of milliseconds. Default: all runs are made. */
  readonly mostMs?: number;
} & (
  | {
      readonly kind: 'matmul';
      readonly size: number;
      /** The number of products of a run, which are awaited together. Default: 1. */
      readonly together?: number;
    }
  | { readonly kind: 'train'; readonly model: PageModel }
);

/** The times of a request, run by run, or the reason why it can't be carried out. */
export type PageAnswer = z.infer<typeof answer>;

/** A contestant that computes only when it is asked to. */
export interface PageContestant {
  readonly about: string;
  ask(request: PageRequest): Promise<PageAnswer>;
  close(): Promise<void>;
}

/** The libraries for pages that ours is compared with, and the program of each. */
const programs = { 'jax-js': 'jax-js.mjs', 'TensorFlow.js': 'tfjs.mjs' } as const;
export type PagePeerName = keyof typeof programs;
export const pagePeerNames: readonly PagePeerName[] = ['jax-js', 'TensorFlow.js'];

/**
 * Starts a peer in a separate process, from the folder that SHARDWISE_PEER_PACKAGES names. Returns a reason if it
 * can't.
 */
export async function startPagePeer(
  name: PagePeerName,
  device: 'wasm' | 'webgpu' = 'wasm',
): Promise<PageContestant | string> {
  const folder = process.env['SHARDWISE_PEER_PACKAGES'];
  if (folder === undefined || folder === '') {
    return 'SHARDWISE_PEER_PACKAGES is not set to a folder where it is installed';
  }
  const path = new URL(`./peers/${programs[name]}`, import.meta.url).pathname;
  const child = spawn(process.execPath, [path, folder, device], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaints += text));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<unknown> => {
    for (;;) {
      const { value, done } = await lines.next();
      if (done === true || value === undefined) break;
      // A driver may write other lines to this stream.
      if (value.startsWith('{')) return JSON.parse(value);
    }
    await exited;
    const found = complaints.split('\n').find((line) => /Error/.test(line)) ?? 'no word of why';
    throw new Error(`it ended: ${found}`);
  };
  try {
    const { about: text } = about.parse(await nextLine());
    return {
      about: text,
      ask: async (request) => {
        child.stdin.write(`${JSON.stringify(request)}\n`);
        return answer.parse(await nextLine());
      },
      close: async () => {
        child.stdin.end();
        await exited;
      },
    };
  } catch (error) {
    child.kill();
    return error instanceof Error ? error.message : String(error);
  }
}
