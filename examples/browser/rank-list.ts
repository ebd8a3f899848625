import type { PageRun, RankEnd } from 'shardwise/browser';

const endings: Readonly<Record<RankEnd['status'], string>> = {
  closed: 'has ended',
  failed: 'failed',
  killed: 'was killed',
  terminated: 'was ended',
};

/** The ranks of a run, each with a button that kills it. */
export class RankList {
  readonly #list: HTMLElement;
  /** The text and the button of each rank, by rank. */
  #rows: readonly { readonly text: HTMLElement; readonly button: HTMLButtonElement }[] = [];

  constructor(list: HTMLElement) {
    this.#list = list;
  }

  start(run: PageRun): void {
    this.#rows = Array.from({ length: run.size }, (_, rank) => {
      const text = document.createElement('span');
      text.textContent = `Rank ${rank} is training`;
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = `Kill rank ${rank}`;
      button.addEventListener('click', () => run.kill(rank));
      return { text, button };
    });
    this.#list.replaceChildren(
      ...this.#rows.map(({ text, button }) => {
        const item = document.createElement('li');
        item.append(text, button);
        return item;
      }),
    );
  }

  end({ rank, status, error }: RankEnd): void {
    const row = this.#rows[rank];
    if (row === undefined) return;
    const why = error === undefined ? '' : `: ${error.message}`;
    row.text.textContent = `Rank ${rank} ${endings[status]}${why}`;
    row.button.disabled = true;
  }
}
