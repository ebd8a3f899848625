import { defineAsyncComponent, defineComponent, h, ref, type VNode } from 'vue';

// The editor is large: a page loads it when the reader asks for it.
const Playground = defineAsyncComponent(async () => (await import('./playground.ts')).Playground);

/** A program of a page, which the reader runs and edits in its place. */
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
