import { checkpoints } from 'shardwise/browser';
import { elementOf } from './elements.ts';
import { type Origin, runName, type StoredRun, storedRuns } from './stored-runs.ts';

/** The runs in the browser's storage. For each run it offers what can be done with the latest checkpoint. */
export class CheckpointList {
  readonly #list = elementOf('checkpoint-list', HTMLElement);
  readonly #heading = elementOf('checkpoints-title', HTMLElement);
  readonly #news = elementOf('checkpoint-news', HTMLElement);
  readonly #goOn: (origin: Origin, name: string) => void;
  #isRunning = false;
  /** Refreshes run one after the other, so that the list shows the result of the last one. */
  #refreshing: Promise<boolean> = Promise.resolve(true);

  /** `goOn` is called with the checkpoint from which the visitor wants to continue. */
  constructor(goOn: (origin: Origin, name: string) => void) {
    this.#goOn = goOn;
  }

  /** Tells the visitor something, also by a screen reader. */
  say(news: string): void {
    this.#news.textContent = news;
  }

  /** Disables all buttons while ranks write to the storage, so that nothing is taken out of it. */
  setRunning(isRunning: boolean): void {
    this.#isRunning = isRunning;
    for (const button of this.#list.querySelectorAll('button')) button.disabled = isRunning;
  }

  /** Shows the current list. Resolves to whether checkpoints can be saved here. If not, the page says why. */
  refresh(): Promise<boolean> {
    this.#refreshing = this.#refreshing.then(() => this.#load());
    return this.#refreshing;
  }

  async #load(): Promise<boolean> {
    try {
      const runs = await storedRuns();
      this.#list.replaceChildren(...runs.map((run) => this.#row(run)));
      return true;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.say(`This browser keeps no checkpoints of this page: ${reason}`);
      return false;
    }
  }

  #row({ directory, found }: StoredRun): HTMLElement {
    const name = runName(directory);
    const item = document.createElement('li');
    const text = document.createElement('span');
    text.textContent =
      typeof found === 'string'
        ? `Run of ${name}: ${found}`
        : `Run of ${name}: update ${found.checkpoint.step} of ${found.progress.steps}`;
    const buttons = document.createElement('div');
    buttons.className = 'actions';
    if (typeof found !== 'string') {
      buttons.append(
        this.#button('Go on', `Go on from the run of ${name}`, () =>
          this.#goOn(found, `the run of ${name}`),
        ),
        this.#button('Download', `Download the run of ${name}`, () =>
          this.#try(() => this.#download(found)),
        ),
      );
    }
    buttons.append(
      this.#button('Remove', `Remove the run of ${name}`, () =>
        this.#try(() => this.#remove(directory, name)),
      ),
    );
    item.append(text, buttons);
    return item;
  }

  #button(text: string, label: string, act: () => void): HTMLButtonElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = text;
    button.setAttribute('aria-label', label);
    button.disabled = this.#isRunning;
    button.addEventListener('click', act);
    return button;
  }

  async #download({ checkpoint }: Origin): Promise<void> {
    const file = await checkpoints.checkpointFile(checkpoint.directory);
    checkpoints.download(file);
    this.say(`${file.name} is among your downloads.`);
  }

  async #remove(directory: string, name: string): Promise<void> {
    await checkpoints.remove(directory);
    await this.refresh();
    this.say(`The run of ${name} is removed.`);
    // The button that had the focus no longer exists.
    this.#heading.focus();
  }

  #try(act: () => Promise<void>): void {
    void act().catch((error: unknown) =>
      this.say(error instanceof Error ? error.message : String(error)),
    );
  }
}
