import type { RunMessage } from '../run-state/run-message.ts';
import { failureKind } from './failure-kind.ts';
import { describeEnd } from './failure.ts';
import type { LauncherOrder } from './ranks/rank-data.ts';
import type { RankEnd, RankHandle, RankOutcome, RankStart } from './ranks/rank-handle.ts';

/** How ranks are started again one by one. */
export interface ApartOptions {
  /** How often each rank is started again. */
  readonly restarts: number;
  readonly onRestart: (rank: number, reason: string) => void;
}

/** A rank that is started again when it fails. The other ranks are not told. */
export class RestartedRank implements RankHandle {
  readonly outcome: Promise<RankOutcome>;
  readonly #create: new (start: RankStart) => RankHandle;
  readonly #start: RankStart;
  readonly #options: ApartOptions;
  #handle: RankHandle;
  #starts = 0;
  #isEnding = false;
  #stop: LauncherOrder | undefined;
  #hasStepped = false;

  constructor(
    create: new (start: RankStart) => RankHandle,
    start: RankStart,
    options: ApartOptions,
  ) {
    this.#create = create;
    this.#start = start;
    this.#options = options;
    this.#handle = this.#begin();
    this.outcome = this.#run();
  }

  order(order: LauncherOrder): void {
    this.#stop = order;
    this.#handle.order(order);
  }

  async terminate(): Promise<void> {
    this.#isEnding = true;
    await this.#handle.terminate();
    await this.outcome;
  }

  #begin(): RankHandle {
    const { environment, onMessage } = this.#start;
    this.#hasStepped = false;
    return new this.#create({
      ...this.#start,
      environment: { ...environment, TORCHELASTIC_RESTART_COUNT: String(this.#starts++) },
      onMessage: (message) => {
        this.#hasStepped ||= isStep(message);
        onMessage(message);
      },
      // The end of this rank is the end of its last start, which #run reports.
      onEnd: () => undefined,
    });
  }

  async #run(): Promise<RankOutcome> {
    for (;;) {
      const outcome = await this.#handle.outcome;
      if (!this.#goesOnAfter(outcome)) {
        this.#start.onEnd(outcome);
        return outcome;
      }
      this.#options.onRestart(outcome.rank, describeEnd(outcome));
      this.#handle = this.#begin();
    }
  }

  /**
   * Whether the rank is started again. It is not after a mistake of the script, which would occur again, nor when the
   * run is to end.
   */
  #goesOnAfter({ exitCode, error, terminated }: RankEnd): boolean {
    if (exitCode === 0 || terminated || this.#isEnding || this.#stop !== undefined) return false;
    if (this.#starts > this.#options.restarts) return false;
    return this.#hasStepped || failureKind(error) === undefined;
  }
}

function isStep({ kind }: RunMessage): boolean {
  return kind === 'step';
}
