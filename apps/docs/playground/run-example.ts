import { defineAsyncComponent, defineComponent, h, ref, type VNode } from 'vue';

// The editor is large, so a page loads it only when the reader asks for it.
const Playground = defineAsyncComponent(async () => (await import('./playground.ts')).Playground);

/** A program in a page. The reader can run and edit it there. */
export const RunExample = defineComponent({
  name: 'RunExample',
  props: {
    /** The name of a file in `examples`. */
    name: { type: String, required: true },
  },
  setup({ name }, { slots }) {
    const isOpen = ref(false);
    return (): VNode =>
      h(
        'div',
        { class: 'run-example' },
        isOpen.value
          ? h(Playground, { example: name })
          : [
              slots['default']?.(),
              h(
                'button',
                {
                  type: 'button',
                  'aria-label': `Run and edit ${name}`,
                  onClick: () => (isOpen.value = true),
                },
                'Run and edit',
              ),
            ],
      );
  },
});
