import {
  dist,
  init,
  manualSeed,
  type nn,
  type optim,
  type PageRankContext,
  profiler,
} from 'shardwise/browser';

import type {
  Checkpoint,
  LiveJob,
  LiveMessage,
  MessageCount,
  Snapshot,
  Span,
} from '../live-job.ts';
import { Gate } from './gate.ts';

/** How a task is trained. */
export interface LiveLoop<Look> {
  readonly network: nn.Module;
  readonly optimizer: optim.AdamW;
  /** The plan of the strategy. Undefined if there is no strategy. */
  readonly plan?: dist.Plan;
  /** Does one update. Returns its loss on this rank. */
  readonly update: (step: number) => Promise<number>;
  /** Returns what the page draws. All ranks call it after the same steps. */
  readonly look: (step: number) => Promise<Look>;
  /** The number of steps between two snapshots for the page. There is also one after the first step. */
  readonly lookSteps: number;
  /** The number of steps after which rank 0 gives the page a checkpoint. `false` if states are not on the ranks. */
  readonly checkpointSteps: number | false;
  /** Called before the rank leaves the world. */
  readonly leave?: () => Promise<void>;
}

const MOST_SPANS = 400;

/** Makes a worker of the page a rank of a training that the page starts, pauses and draws. */
export class LiveRank {
  readonly context: PageRankContext;
  readonly task: unknown;
  readonly steps: number;
  readonly #job: LiveJob;

  private constructor(context: PageRankContext) {
    this.context = context;
    // The page and its workers are one program, so the data need no check.
    this.#job = context.data as LiveJob;
    this.task = this.#job.task;
    this.steps = this.#job.steps;
  }

  /** Joins the other ranks. From here on all ranks draw the same random numbers. */
  static async join(): Promise<LiveRank> {
    const rank = new LiveRank(await init());
    manualSeed(rank.#job.seed);
    return rank;
  }

  /** Trains until the last step, from the checkpoint if there is one, and leaves the world. */
  async train<Look>(loop: LiveLoop<Look>): Promise<void> {
    const { checkpoint, steps } = this.#job;
    const { update, lookSteps, checkpointSteps } = loop;
    if (checkpoint !== undefined) await restore(loop, checkpoint);
    const gate = new Gate();
    this.#send({ kind: 'ready' });
    const first = (checkpoint?.step ?? 0) + 1;
    for (let step = first; step <= steps; step += 1) {
      await gate.pass(step);
      const looks = step % lookSteps === 0 || step === steps || step === first;
      const work: Work = { spans: [], messages: [] };
      const end = looks ? recordWork(work) : () => {};
      const start = performance.now();
      const loss = await update(step);
      end();
      this.#send({ kind: 'step', step, loss, stepMs: performance.now() - start });
      if (looks) {
        this.#send({ kind: 'snapshot', snapshot: await this.#snapshot(loop, step, work) });
      }
      if (checkpointSteps !== false && step % checkpointSteps === 0) {
        await this.#save(loop, step);
      }
    }
    await loop.leave?.();
    await this.context.close();
  }

  async #snapshot<Look>(
    { network, optimizer, plan, look }: LiveLoop<Look>,
    step: number,
    { spans, messages }: Work,
  ): Promise<Snapshot<Look>> {
    const { computeMs, communicationMs } = profiler.statistics();
    const { parameterBytes, gradientBytes, optimizerBytes } = dist.memory({
      model: network,
      optimizer,
    });
    return {
      step,
      computeMs,
      communicationMs,
      statesBytes: parameterBytes + gradientBytes + optimizerBytes,
      plannedBytes: plan === undefined ? undefined : dist.planMemory(plan).statesBytes,
      messages: countedBy(messages),
      plannedMessages: plan === undefined ? undefined : plannedMessages(plan),
      spans,
      look: await look(step),
    };
  }

  /**
   * Sends a checkpoint. It is a collective: if a strategy shares values out, whole values are collected on all ranks.
   */
  async #save<Look>({ network, optimizer }: LiveLoop<Look>, step: number): Promise<void> {
    const checkpoint = {
      step,
      model: await network.stateDict(),
      optimizer: await optimizer.stateDict(),
    };
    if (this.context.rank === 0) this.#send({ kind: 'checkpoint', checkpoint });
  }

  #send<Look>(message: LiveMessage<Look>): void {
    this.context.send(message);
  }
}

async function restore<Look>(
  { network, optimizer }: LiveLoop<Look>,
  { model, optimizer: states }: Checkpoint,
): Promise<void> {
  await network.loadStateDict(model);
  optimizer.loadStateDict(states);
}

/** The work of a rank in a step. */
interface Work {
  readonly spans: Span[];
  readonly messages: Message[];
}

type Message = Pick<MessageCount, 'operation' | 'bytes'>;

function recordWork({ spans, messages }: Work): () => void {
  return profiler.subscribe(({ category, name, startMs, durationMs, bytes = 0 }) => {
    if (spans.length < MOST_SPANS) spans.push({ category, name, startMs, durationMs });
    if (category === 'collective') messages.push({ operation: name, bytes });
  });
}

/** Returns the messages of a step by the plan. Messages before the first step do not belong to a step. */
function plannedMessages(plan: dist.Plan): readonly MessageCount[] {
  const all = plan.steps.flatMap((step) => step.collectives(plan));
  return countedBy(all.filter(({ when }) => when !== 'start'));
}

function countedBy(messages: readonly Message[]): readonly MessageCount[] {
  return [...Map.groupBy(messages, ({ operation }) => operation)].map(([operation, own]) => ({
    operation,
    count: own.length,
    bytes: own.reduce((sum, { bytes }) => sum + bytes, 0),
  }));
}
