import {
  mayStartAgain,
  type FindResume,
  type NextGeneration,
  type Rendezvous,
} from './rendezvous.ts';
import type { Generation, GenerationEnd, GenerationNode } from './generation.ts';

export interface LoneRendezvousOptions {
  readonly node: GenerationNode;
  readonly maxRestarts: number;
  readonly runDirectory: string;
  readonly transport?: string | undefined;
  readonly findResume: FindResume;
}

/** The rendezvous of a host that is alone. It agrees with nobody, but it also limits restarts. */
export class LoneRendezvous implements Rendezvous {
  readonly leads = true;
  readonly #options: LoneRendezvousOptions;
  #epoch = -1;
  #restarts = 0;
  #end = Promise.withResolvers<GenerationEnd>();

  constructor(options: LoneRendezvousOptions) {
    this.#options = options;
  }

  async next(signal: AbortSignal): Promise<NextGeneration> {
    signal.throwIfAborted();
    const { node, maxRestarts, runDirectory, transport, findResume } = this.#options;
    const end = this.#epoch < 0 ? undefined : await this.#end.promise;
    if (end !== undefined && (!mayStartAgain(end) || this.#restarts >= maxRestarts)) {
      return { kind: 'over', end };
    }
    const point = await findResume(end?.kind === 'failed' ? end.failure : undefined);
    if (end !== undefined) {
      if (point.kind === 'nowhere') return { kind: 'over', end };
      this.#restarts += 1;
      this.#end = Promise.withResolvers();
    }
    this.#epoch += 1;
    const generation: Generation = {
      epoch: this.#epoch,
      nodes: [node],
      nodeRank: 0,
      restarts: this.#restarts,
      runDirectory,
      resumeDirectory: point.kind === 'from' ? point.directory : undefined,
      transport,
      store: undefined,
    };
    return { kind: 'generation', generation };
  }

  async finish(): Promise<void> {
    this.#end.resolve({ kind: 'finished' });
  }

  async end(_: Generation, end: GenerationEnd): Promise<void> {
    this.#end.resolve(end);
  }

  ended(): Promise<GenerationEnd> {
    return this.#end.promise;
  }

  isQuiet(): boolean {
    return false;
  }

  takeRestart(): boolean {
    if (this.#restarts >= this.#options.maxRestarts) return false;
    this.#restarts += 1;
    return true;
  }

  /** There are no others. */
  onHosts(): void {}

  async close(): Promise<void> {}
}
