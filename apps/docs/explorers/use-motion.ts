import { onMounted, ref, type Ref } from 'vue';

/**
 * Says whether a page may move by itself, which readers can refuse. False on the server and until the page is mounted,
 * because the page first draws what the server has written.
 */
export function useMotion(): Ref<boolean> {
  const isAllowed = ref(false);
  onMounted(() => {
    isAllowed.value = matchMedia('(prefers-reduced-motion: no-preference)').matches;
  });
  return isAllowed;
}
