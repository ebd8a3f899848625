import { MessagePort as NodePort, Worker } from 'node:worker_threads';
import { connectPorts, type PageRank } from '@shardwise/collectives';
import { RankFailure, type ProcessGroupScenario, type RankOutcome } from '@shardwise/testing';
import type { PageAnswer, PageTask } from './page-rank-worker.ts';

/** Workers that serve as ranks of one world after another. Ports connect them. */
export class PageWorkers {
  readonly #workers: Worker[] = [];

  /** Runs the scenario and returns how each rank's part ended. Calls `onJoined` as soon as all ranks have joined. */
  async run(
    size: number,
    scenario: ProcessGroupScenario | undefined,
    onJoined: () => void = () => {},
  ): Promise<readonly RankOutcome[]> {
    const { ranks } = connectPorts(size);
    const ended = ranks.map((row, rank) => {
      const pageRank: PageRank = { rank, size, world: undefined, ports: [...row] };
      return this.#perform({ pageRank, scenario });
    });
    await Promise.all(ended.map(({ joined }) => joined));
    onJoined();
    return Promise.all(ended.map(({ outcome }) => outcome));
  }

  /** Returns the worker of a rank. A worker that has ended is replaced at the next run. */
  worker(rank: number): Worker {
    const known = this.#workers[rank];
    if (known !== undefined && known.threadId >= 0) return known;
    const started = new Worker(new URL('./page-rank-worker.ts', import.meta.url));
    this.#workers[rank] = started;
    return started;
  }

  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #perform(task: PageTask): {
    readonly joined: Promise<void>;
    readonly outcome: Promise<RankOutcome>;
  } {
    const { rank, ports } = task.pageRank;
    const worker = this.worker(rank);
    const joined = Promise.withResolvers<void>();
    const outcome = Promise.withResolvers<RankOutcome>();
    const onMessage = (answer: PageAnswer): void => {
      if (answer.status === 'joined') {
        joined.resolve();
        return;
      }
      worker.off('message', onMessage);
      worker.off('exit', onExit);
      if (answer.status === 'fulfilled') outcome.resolve(answer);
      else outcome.resolve({ status: 'rejected', error: new RankFailure(rank, answer.report) });
    };
    const onExit = (): void => {
      worker.off('message', onMessage);
      const message = 'The worker has ended';
      const report = { name: 'Error', message, stack: undefined, code: undefined, fields: {} };
      outcome.resolve({ status: 'rejected', error: new RankFailure(rank, report) });
    };
    worker.on('message', onMessage);
    worker.once('exit', onExit);
    worker.postMessage(
      task,
      ports.filter((port) => port instanceof NodePort),
    );
    return { joined: joined.promise, outcome: outcome.promise };
  }
}
