import type { RunState } from '../run-state/run-state.ts';
import { printable } from '../text/printable.ts';
import { liveBlock } from './live-block.ts';
import type { Paint } from './paint.ts';
import { namedLine, type RunOutput } from './run-output.ts';
import { Screen, type TerminalStream } from './screen.ts';

const FRAME_MS = 100;

/** Shows the live block, which is redrawn at most ten times a second. What ranks write scrolls by above it. */
export class LiveOutput implements RunOutput {
  readonly #screen: Screen;
  readonly #paint: Paint;
  #state: RunState | undefined;
  #above: string[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(stream: TerminalStream, paint: Paint) {
    this.#screen = new Screen(stream);
    this.#paint = paint;
  }

  update(state: RunState): void {
    const { transport } = state.head;
    if (transport !== undefined && transport !== this.#state?.head.transport) {
      this.#above.push(this.#paint(`transport: ${printable(transport)}`, 'dim'));
    }
    this.#state = state;
    this.#schedule();
  }

  rankLine(rank: number, line: string): void {
    const text = namedLine(rank, printable(line));
    this.#above.push(rank === 0 ? text : this.#paint(text, 'dim'));
    this.#schedule();
  }

  notice(text: string): void {
    this.#above.push(text);
    this.#schedule();
  }

  /** Ends the output. A run without steps leaves no block on the screen. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#state?.latest === undefined) this.#state = undefined;
    this.#draw();
    this.#screen.release();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => this.#draw(), FRAME_MS);
  }

  #draw(): void {
    this.#timer = undefined;
    const block =
      this.#state === undefined ? [] : liveBlock(this.#state, this.#screen.columns, this.#paint);
    this.#screen.draw(block, this.#above);
    this.#above = [];
  }
}
