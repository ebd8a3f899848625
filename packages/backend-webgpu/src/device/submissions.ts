import type { Task } from './task.ts';
import type { WorkLimit } from './work-limit.ts';

/** The most submissions under way. A queue that grows without bound makes a device slow. */
const MAX_SUBMISSIONS = 8;
/** The most programs under way that update parameters. */
const MAX_STEPS = 2;

export interface SubmissionOptions {
  /** Whether this is the last submission of a program that updates parameters. */
  readonly isStep: boolean;
  readonly work: number;
  readonly task: Task;
}

interface Submission extends SubmissionOptions {
  readonly done: Promise<void>;
}

export interface SubmissionsOptions {
  readonly limit: WorkLimit;
  /** How long the device may take for one submission. */
  readonly timeoutMs: number;
  /** Is called for a submission that takes longer. */
  readonly onTimeout: (task: Task) => void;
}

/** The submissions that the device was given and has not done yet, in order. */
export class Submissions {
  readonly #limit: WorkLimit;
  readonly #timeoutMs: number;
  readonly #onTimeout: (task: Task) => void;
  readonly #underWay = new Set<Submission>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the device began with the oldest submission. */
  #begun = 0;
  #count = 0;

  constructor({ limit, timeoutMs, onTimeout }: SubmissionsOptions) {
    this.#limit = limit;
    this.#timeoutMs = timeoutMs;
    this.#onTimeout = onTimeout;
  }

  /** The number of submissions so far, including those that are done. */
  get count(): number {
    return this.#count;
  }

  /** The task that the device is computing. */
  get oldest(): Task | undefined {
    const [oldest] = this.#underWay;
    return oldest?.task;
  }

  /** `done` settles when the device has done the submission. */
  add(options: SubmissionOptions, done: Promise<unknown>): void {
    this.#count += 1;
    const end = (): void => {
      this.#limit.note(submission.work, performance.now() - this.#begun);
      this.#underWay.delete(submission);
      this.#begin();
    };
    const submission: Submission = { ...options, done: done.then(end) };
    this.#underWay.add(submission);
    if (this.#underWay.size === 1) this.#begin();
  }

  /** Settles with the submission that must end before the device is given more. Undefined if there is room. */
  inTheWay(): Promise<void> | undefined {
    const underWay = [...this.#underWay];
    const steps = underWay.filter(({ isStep }) => isStep);
    if (steps.length >= MAX_STEPS) return steps[0]?.done;
    return underWay.length >= MAX_SUBMISSIONS ? underWay[0]?.done : undefined;
  }

  /** Forgets all submissions, so that nothing is waited for any more. */
  end(): void {
    clearTimeout(this.#timer);
    this.#underWay.clear();
  }

  /** Notes that the device begins with the oldest submission. */
  #begin(): void {
    clearTimeout(this.#timer);
    this.#begun = performance.now();
    const [oldest] = this.#underWay;
    if (oldest === undefined) return;
    this.#timer = setTimeout(() => this.#onTimeout(oldest.task), this.#timeoutMs);
  }
}
