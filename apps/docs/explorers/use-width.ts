import { onBeforeUnmount, onMounted, ref, shallowRef, type Ref, type ShallowRef } from 'vue';

export interface MeasuredWidth {
  /** The element whose width is measured, as a template reference. */
  readonly element: ShallowRef<Element | null>;
  /** The width in CSS pixels. Before the page has measured it, and on the server: `assumed`. */
  readonly width: Ref<number>;
}

/**
 * Measures an element, so that a drawing fills it without scaling its texts. The height of such a drawing must not
 * depend on the width, or the page would jump when the width is known.
 */
export function useWidth(assumed: number): MeasuredWidth {
  const element = shallowRef<Element | null>(null);
  const width = ref(assumed);
  let observer: ResizeObserver | undefined;
  onMounted(() => {
    if (element.value === null) return;
    observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) width.value = Math.round(entry.contentRect.width);
    });
    observer.observe(element.value);
  });
  onBeforeUnmount(() => observer?.disconnect());
  return { element, width };
}
