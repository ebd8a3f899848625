import { withBase } from 'vitepress';
import { computed, defineComponent, h, onMounted, ref, type VNode } from 'vue';
import { data as pages, type SitePage } from './pages.data.ts';
import { similarPages, wordsOf } from './similar-pages.ts';

/** Where to go on if no page is like the address. */
const starts = ['/learn/', '/guides/', '/reference/', '/explore/'];

/** The page for an address that does not exist. It suggests pages by the words of the address. */
export const NotFound = defineComponent({
  name: 'NotFound',
  setup() {
    const text = ref('');
    const similar = computed(() => similarPages(wordsOf(text.value), pages));

    onMounted(() => {
      const path = decodeURIComponent(location.pathname.slice(withBase('/').length));
      text.value = wordsOf(`${path} ${decodeURIComponent(location.hash.slice(1))}`).join(' ');
    });

    const list = (shown: readonly SitePage[]): VNode =>
      h(
        'ul',
        shown.map(({ url, title }) => h('li', h('a', { href: withBase(url) }, title))),
      );

    return (): VNode =>
      h('main', { class: 'not-found' }, [
        h('h1', 'This page is not here'),
        h('form', { role: 'search', onSubmit: (event: Event) => event.preventDefault() }, [
          h('label', { for: 'not-found-words' }, 'Pages about'),
          h('input', {
            id: 'not-found-words',
            type: 'search',
            value: text.value,
            onInput: (event: Event) => {
              text.value = (event.target as HTMLInputElement).value;
            },
          }),
        ]),
        h(
          'div',
          { 'aria-live': 'polite' },
          similar.value.length > 0
            ? [h('p', 'You may be looking for:'), list(similar.value)]
            : [
                h('p', 'No page is about these words. Go on from here:'),
                list(pages.filter(({ url }) => starts.includes(url))),
              ],
        ),
        h('p', [
          h('a', { href: withBase('/') }, 'To the start of the site'),
          '. The search at the top of the page finds words in the text of all pages.',
        ]),
      ]);
  },
});
