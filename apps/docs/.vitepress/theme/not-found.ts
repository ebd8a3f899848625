import MiniSearch from 'minisearch';
import { useData, withBase } from 'vitepress';
import { defineComponent, h, onMounted, ref, type VNode } from 'vue';

interface Found {
  readonly id: string;
  readonly title: string;
}

/** The page for an address that does not exist. It searches the site for the words of the address. */
export const NotFound = defineComponent({
  name: 'NotFound',
  setup() {
    const { localeIndex } = useData();
    const words = ref('');
    const found = ref<readonly Found[]>([]);
    let index: MiniSearch<Found> | undefined;

    const search = (): void => {
      const hits =
        index?.search(words.value, { fuzzy: 0.2, prefix: true, boost: { title: 4 } }) ?? [];
      found.value = hits
        .slice(0, 8)
        .map((hit) => ({ id: String(hit.id), title: String(hit['title']) }));
    };

    onMounted(async () => {
      words.value = decodeURIComponent(location.pathname.slice(withBase('/').length))
        .replace(/\.(html|md)$/, '')
        .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
        .trim();
      const { default: indexes } = await import('@localSearchIndex');
      const load = indexes[localeIndex.value];
      if (load === undefined) return;
      const { default: json } = await load();
      index = MiniSearch.loadJSON<Found>(json, {
        fields: ['title', 'titles', 'text'],
        storeFields: ['title', 'titles'],
      });
      search();
    });

    return (): VNode =>
      h('main', { class: 'not-found' }, [
        h('h1', 'This page is not here'),
        h('form', { role: 'search', onSubmit: (event: Event) => event.preventDefault() }, [
          h('label', { for: 'not-found-words' }, 'Search the site for'),
          h('input', {
            id: 'not-found-words',
            type: 'search',
            value: words.value,
            onInput: (event: Event) => {
              words.value = (event.target as HTMLInputElement).value;
              search();
            },
          }),
        ]),
        h('div', { 'aria-live': 'polite' }, [
          found.value.length === 0
            ? h('p', 'Nothing is found by these words.')
            : h(
                'ul',
                found.value.map(({ id, title }) => h('li', h('a', { href: id }, title))),
              ),
        ]),
        h('p', h('a', { href: withBase('/') }, 'To the start of the site')),
      ]);
  },
});
