import { Session, type SessionOptions } from './runtime/session.ts';

interface Entry {
  readonly session: Session;
  users: number;
}

/** A session that all leases of the same model share. */
export interface SessionLease {
  readonly session: Session;
  /** Must be called once. */
  release(): void;
}

/** Sessions by their model. Equal layers of a network share one session, and the memory that it keeps. */
export class Sessions {
  readonly #options: SessionOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(threads: number) {
    this.#options = { threads };
  }

  /** Throws BackendError if ONNX Runtime refuses the model. `describe` names the ops and shapes in that error. */
  acquire(model: Uint8Array, describe: () => string): SessionLease {
    const key = Buffer.from(model).toString('latin1');
    const entry = this.#entries.get(key) ?? {
      session: new Session(model, this.#options, `to compile ${describe()}`),
      users: 0,
    };
    this.#entries.set(key, entry);
    entry.users++;
    return { session: entry.session, release: () => this.#release(key, entry) };
  }

  #release(key: string, entry: Entry): void {
    entry.users--;
    if (entry.users > 0) return;
    this.#entries.delete(key);
    entry.session.release();
  }
}
