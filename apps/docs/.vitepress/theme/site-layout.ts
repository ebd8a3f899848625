import { useRoute } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import {
  defineAsyncComponent,
  defineComponent,
  h,
  nextTick,
  onMounted,
  watch,
  type VNode,
} from 'vue';

const NotFound = defineAsyncComponent(async () => (await import('./not-found.ts')).NotFound);

/** The theme's layout. It adds the landmark that marks the content of the home page, which the theme lacks. */
export const SiteLayout = defineComponent({
  name: 'SiteLayout',
  setup() {
    const route = useRoute();
    const mark = async (): Promise<void> => {
      await nextTick();
      const content = document.querySelector('#VPContent');
      if (content?.querySelector('main') === null) content.setAttribute('role', 'main');
      else content?.removeAttribute('role');
    };
    onMounted(() => {
      void mark();
      watch(
        () => route.path,
        () => void mark(),
      );
    });
    return (): VNode => h(DefaultTheme.Layout, null, { 'not-found': () => h(NotFound) });
  },
});
