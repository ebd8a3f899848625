import { isAllowance } from '../live-job.ts';

/** Lets this worker do as many steps as the page allows. */
export class Gate {
  #allowed = 0;
  #wake: (() => void) | undefined;

  constructor() {
    globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (!isAllowance(data)) return;
      this.#allowed = data.allowedSteps;
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
}
