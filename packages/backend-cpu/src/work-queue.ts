/** Runs tasks one after another, in the order of the calls. */
export class WorkQueue {
  #tail: Promise<void> | undefined;

  /** Starts at once when nothing is pending. A task that fails does not stop the ones behind it. */
  run(task: () => Promise<void>): Promise<void> {
    // Idle before the caller learns of the end, so that what it does next happens at once.
    const execute = async (): Promise<void> => {
      try {
        await task();
      } finally {
        if (this.#tail === tail) this.#tail = undefined;
      }
    };
    const result = this.#tail === undefined ? execute() : this.#tail.then(execute);
    const tail: Promise<void> = result.catch(() => undefined);
    this.#tail = tail;
    return result;
  }

  get idle(): boolean {
    return this.#tail === undefined;
  }

  /** Settles when everything so far is done; failures are told to those who called `run`. */
  async drained(): Promise<void> {
    await this.#tail;
  }
}
