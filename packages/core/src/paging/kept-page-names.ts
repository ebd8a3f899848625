import type { Page, PageStore } from './page.ts';

/** The names of pages without names of their own that outlive their runs. A name is used again when its page is gone. */
class KeptPageNames {
  readonly #free: string[] = [];
  readonly #gone = new FinalizationRegistry<string>((name) => this.#free.push(name));
  #count = 0;

  async write(store: PageStore, bytes: Uint8Array): Promise<Page> {
    const name = this.#free.pop() ?? `kept value ${this.#count++}`;
    const page = await store.write(name, bytes);
    this.#gone.register(page, name);
    return page;
  }
}

const namesOf = new WeakMap<PageStore, KeptPageNames>();

/** Writes a page that no later one replaces while it can be read. */
export function writeKeptPage(store: PageStore, bytes: Uint8Array): Promise<Page> {
  const names = namesOf.get(store) ?? new KeptPageNames();
  namesOf.set(store, names);
  return names.write(store, bytes);
}
