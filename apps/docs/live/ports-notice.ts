import { withBase } from 'vitepress';
import { h, onMounted, ref, type VNode } from 'vue';

/** Tells the reader before the start that ranks of this page cannot share memory. Shows nothing if they can. */
export function usePortsNotice(): () => VNode | null {
  const isIsolated = ref(true);
  onMounted(() => {
    isIsolated.value = globalThis.crossOriginIsolated;
  });
  return () =>
    isIsolated.value
      ? null
      : h('p', { class: 'setting ports-notice' }, [
          'Here ranks exchange messages over ports, which gives the same results and takes longer: the host of this page does not isolate it, and no service worker could. ',
          h('a', { href: withBase('/reference/browsers') }, 'What sharing memory needs'),
        ]);
}
