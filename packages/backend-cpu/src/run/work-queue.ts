/** Runs tasks one after the other, in the order of the calls. */
export class WorkQueue {
  #tail: Promise<void> | undefined;

  /** Starts the task at once if nothing is pending. If a task fails, the tasks behind it still run. */
  run(task: () => Promise<void>): Promise<void> {
    // The queue is idle before the caller learns that the task has ended, so that its next task starts at once.
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

  /** Settles when all tasks so far are done. It never rejects, because failures are told to those who called `run`. */
  async drained(): Promise<void> {
    await this.#tail;
  }
}
