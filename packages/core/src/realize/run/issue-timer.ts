import { rankState } from '../../ambient.ts';

/**
 * A rank that has built nothing for so many milliseconds issues the collectives that it has made. Other ranks may wait
 * for them, while this one waits for something else, or has come to the end of its script.
 */
const IDLE_MS = 100;

/** A session that issues collectives. */
interface Issuer {
  /** Whether the program has made collectives that this session has not issued. */
  readonly isBehind: boolean;
  readonly isComputing: boolean;
  flush(): void;
}

/** Has the collectives of a rank issued that reads nothing, and waits for nothing here. */
export class IssueTimer {
  readonly #issuer: Issuer;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #newestNode = 0;

  constructor(issuer: Issuer) {
    this.#issuer = issuer;
  }

  start(): void {
    this.#timer ??= setTimeout(() => this.#end(), IDLE_MS);
    this.#newestNode = rankState.nextNodeId;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #end(): void {
    this.#timer = undefined;
    if (!this.#issuer.isBehind) return;
    if (this.#issuer.isComputing || this.#newestNode !== rankState.nextNodeId) this.start();
    else this.#issuer.flush();
  }
}
