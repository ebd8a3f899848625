import { MemoryStore } from '@shardwise/collectives/node';

/** A store that answers `set` when the test says so. */
export class SlowStore extends MemoryStore {
  /** The number of calls of `set`. */
  sets = 0;
  #waiting: PromiseWithResolvers<void>[] = [];
  #onAsked: () => void = () => undefined;

  override async set(key: string, value: Uint8Array): Promise<void> {
    this.sets += 1;
    const answer = Promise.withResolvers<void>();
    this.#waiting.push(answer);
    this.#onAsked();
    await answer.promise;
    await super.set(key, value);
  }

  /** Waits for call `count` of `set`. */
  async asked(count: number): Promise<void> {
    while (this.sets < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onAsked = resolve;
      await promise;
    }
  }

  /** Answers the calls that wait. */
  answer(): void {
    for (const { resolve } of this.#waiting.splice(0)) resolve();
  }

  refuse(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
