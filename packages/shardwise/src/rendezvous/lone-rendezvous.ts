import { mayStartAgain, type FindResume, type NextRound, type Rendezvous } from './rendezvous.ts';
import type { Round, RoundEnd, RoundNode } from './round.ts';

export interface LoneRendezvousOptions {
  readonly node: RoundNode;
  readonly maxRestarts: number;
  readonly runDirectory: string;
  readonly transport?: string | undefined;
  readonly findResume: FindResume;
}

/** The rendezvous of a host that is alone. It agrees with nobody, but it also limits restarts. */
export class LoneRendezvous implements Rendezvous {
  readonly #options: LoneRendezvousOptions;
  #epoch = -1;
  #restarts = 0;
  #end = Promise.withResolvers<RoundEnd>();

  constructor(options: LoneRendezvousOptions) {
    this.#options = options;
  }

  async next(signal: AbortSignal): Promise<NextRound> {
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
    const round: Round = {
      epoch: this.#epoch,
      nodes: [node],
      nodeRank: 0,
      restarts: this.#restarts,
      runDirectory,
      resumeDirectory: point.kind === 'from' ? point.directory : undefined,
      transport,
      store: undefined,
    };
    return { kind: 'round', round };
  }

  async finish(): Promise<void> {
    this.#end.resolve({ kind: 'finished' });
  }

  async end(_: Round, end: RoundEnd): Promise<void> {
    this.#end.resolve(end);
  }

  ended(): Promise<RoundEnd> {
    return this.#end.promise;
  }

  isQuiet(): boolean {
    return false;
  }

  async close(): Promise<void> {}
}
