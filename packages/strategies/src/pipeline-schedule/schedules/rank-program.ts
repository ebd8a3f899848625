import type { ComputeAction, ComputeKind, ScheduledAction } from '../actions/action.ts';

/**
 * Writes the actions of a rank. An action that is added for a stage is for the stage's next microbatch. Forwards,
 * backwards (or input gradients) and weight gradients are counted separately.
 */
export class RankProgram {
  readonly #actions: ScheduledAction[] = [];
  readonly #next = new Map<string, number>();
  /** The input gradients whose weight gradient is still to come, first in, first out. */
  readonly #pendingWeights: ComputeAction[] = [];

  get actions(): readonly ScheduledAction[] {
    return this.#actions;
  }

  get hasPendingWeights(): boolean {
    return this.#pendingWeights.length > 0;
  }

  forward(stage: number): void {
    this.#actions.push(this.#take('forward', stage));
  }

  backward(stage: number): void {
    this.#actions.push(this.#take('backward', stage));
  }

  inputGradient(stage: number): void {
    const action = this.#take('inputGradient', stage);
    this.#actions.push(action);
    this.#pendingWeights.push(action);
  }

  /** Adds the weight gradient of the oldest input gradient that has none yet. If there is none, it adds nothing. */
  weightGradient(): void {
    const pending = this.#pendingWeights.shift();
    if (pending !== undefined) this.#actions.push({ ...pending, kind: 'weightGradient' });
  }

  overlap(forwardStage: number, backwardStage: number): void {
    const forward = this.#take('forward', forwardStage);
    const backward = this.#take('backward', backwardStage);
    this.#actions.push({ kind: 'overlap', actions: [forward, backward] });
  }

  #take(kind: ComputeKind, stage: number): ComputeAction {
    const counter = `${kind === 'forward' ? 'forward' : 'backward'} ${stage}`;
    const microbatch = this.#next.get(counter) ?? 0;
    this.#next.set(counter, microbatch + 1);
    return { kind, stage, microbatch };
  }
}

/** Calls `body` a number of times. It is never called for numbers below 1. */
export function repeat(times: number, body: (turn: number) => void): void {
  for (let turn = 0; turn < times; turn++) body(turn);
}
