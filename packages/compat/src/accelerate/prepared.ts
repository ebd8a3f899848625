import type { Module, Tensor } from '@shardwise/core/extend';
import type { checkpoints, dist, optim } from 'shardwise';

/** A schedule to be prepared. */
export interface Scheduler extends checkpoints.Stateful {
  step(): void;
}

/** A prepared model. */
export class AcceleratedModel<M extends Module, Inputs extends readonly unknown[], Output> {
  readonly #parallel: dist.ParallelModel<M, Inputs, Output>;
  readonly #synchronizes: () => boolean;

  constructor(parallel: dist.ParallelModel<M, Inputs, Output>, synchronizes: () => boolean) {
    this.#parallel = parallel;
    this.#synchronizes = synchronizes;
  }

  get module(): M {
    return this.#parallel.module;
  }

  forward(...inputs: Inputs): Output {
    const run = (): Output => this.#parallel.forward(...inputs);
    return this.#synchronizes() ? run() : this.#parallel.noSync(run);
  }

  noSync<T>(body: () => T): T {
    return this.#parallel.noSync(body);
  }

  parameters(): readonly Tensor[] {
    return this.module.parameters();
  }

  train(mode = true): void {
    this.module.train(mode);
  }

  eval(): void {
    this.module.eval();
  }
}

/** A prepared optimizer, which does nothing in the passes before the last one of an update. */
export class AcceleratedOptimizer {
  readonly optimizer: optim.Optimizer;
  /** The number of updates. */
  updates = 0;
  readonly #scaler: optim.LossScaler | null;
  readonly #synchronizes: () => boolean;
  #skipped = false;
  #isUnscaled = false;

  constructor(
    optimizer: optim.Optimizer,
    scaler: optim.LossScaler | null,
    synchronizes: () => boolean,
  ) {
    this.optimizer = optimizer;
    this.#scaler = scaler;
    this.#synchronizes = synchronizes;
  }

  get paramGroups(): optim.Optimizer['paramGroups'] {
    return this.optimizer.paramGroups;
  }

  /** Whether the latest update was skipped because gradients were not finite. */
  get stepWasSkipped(): boolean {
    return this.#skipped;
  }

  /** Divides gradients by the scale of the loss, once for each update. */
  unscale(): void {
    if (this.#scaler === null || this.#isUnscaled) return;
    this.#scaler.unscale(this.optimizer);
    this.#isUnscaled = true;
  }

  async step(): Promise<void> {
    if (!this.#synchronizes()) return;
    const scaler = this.#scaler;
    this.#skipped = !(await (scaler === null
      ? this.optimizer.step()
      : scaler.step(this.optimizer)));
    scaler?.update();
    this.#isUnscaled = false;
    if (!this.#skipped) this.updates++;
  }

  zeroGrad(): void {
    if (this.#synchronizes()) this.optimizer.zeroGrad();
  }
}

/** A prepared schedule. */
export class AcceleratedScheduler {
  readonly #scheduler: Scheduler;
  readonly #times: number;
  readonly #steps: () => boolean;

  constructor(scheduler: Scheduler, times: number, steps: () => boolean) {
    this.#scheduler = scheduler;
    this.#times = times;
    this.#steps = steps;
  }

  step(): void {
    if (!this.#steps()) return;
    for (let step = 0; step < this.#times; step++) this.#scheduler.step();
  }
}
