import { z } from 'zod';
import { type LineProcess, startLineProcess } from './line-process.ts';
import type { ScheduleMeasured } from './pipeline/messages.ts';
import type { Precision } from './precision.ts';

const about = z.looseObject({ torch: z.string(), blas: z.string(), threads: z.number() });
const answer = z.object({
  ms: z.array(z.number().positive()),
  /** The time on a core. Empty unless the peer is a single process. */
  cpuMs: z.array(z.number().positive()).default([]),
  losses: z.array(z.number()),
});

export type PeerRound = z.infer<typeof answer>;

export interface PeerRequest {
  readonly steps: number;
  /** 'compiled' uses torch.compile for the model, and the fused optimizer. */
  readonly optimizer: 'default' | 'fused' | 'compiled';
  readonly mode?: 'ddp' | 'fsdp' | 'alone' | 'layer' | ScheduleMeasured;
  readonly precision: Precision;
}

/** PyTorch in a separate process that computes only when it is asked to, so that rounds can alternate. */
export interface Peer {
  readonly about: z.infer<typeof about>;
  round(request: PeerRequest): Promise<PeerRound>;
  close(): Promise<void>;
}

/** A peer, or why there is none. PyTorch may not be installed. */
export type PeerOrReason = { readonly peer: Peer } | { readonly reason: string };

/** Starts bench/peers/SCRIPT ARGS with the interpreter that SHARDWISE_PEER_PYTHON names. */
export async function startPeer(
  script: string,
  args: readonly string[] = [],
): Promise<PeerOrReason> {
  const started = startPython(script, args);
  if ('reason' in started) return started;
  const { process } = started;
  return {
    peer: {
      about: about.parse(await process.next()),
      round: async (request) => answer.parse(await process.ask(request)),
      close: () => process.close(),
    },
  };
}

/** Starts bench/peers/SCRIPT ARGS as a process that answers lines, with one thread for each product by default. */
export function startPython(
  script: string,
  args: readonly string[],
): { readonly process: LineProcess } | { readonly reason: string } {
  const { SHARDWISE_PEER_PYTHON: python = '' } = process.env;
  if (python === '') {
    return { reason: 'SHARDWISE_PEER_PYTHON is not set to a Python interpreter that has PyTorch' };
  }
  const path = new URL(`./peers/${script}`, import.meta.url).pathname;
  const env = { ...process.env, OMP_NUM_THREADS: '1', MKL_NUM_THREADS: '1' };
  return { process: startLineProcess(`The peer ${script}`, python, ['-B', path, ...args], env) };
}
