import type { Allowance } from '../live-job.ts';

/** How many steps the page allows. */
export class Gate implements Disposable {
  readonly #channel: BroadcastChannel;
  #allowed = 0;
  #wake: (() => void) | undefined;

  constructor(name: string) {
    this.#channel = new BroadcastChannel(name);
    this.#channel.addEventListener('message', ({ data }: MessageEvent<Allowance>) => {
      this.#allowed = data.steps;
      this.#wake?.();
    });
  }

  /** Waits until the page allows this step. */
  async pass(step: number): Promise<void> {
    while (step > this.#allowed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  [Symbol.dispose](): void {
    this.#channel.close();
  }
}
