import type { EditorView } from '@codemirror/view';
import lzString from 'lz-string';
import {
  defineComponent,
  h,
  nextTick,
  onBeforeUnmount,
  onMounted,
  ref,
  shallowRef,
  watch,
  type VNode,
} from 'vue';
import { withBase } from 'vitepress';
import { choice, explorer } from '../explorers/controls.ts';
import { useDeviceChoice } from '../live/device-choice.ts';
import { createEditor } from './code-editor.ts';
import { examples } from './examples.ts';
import { MOST_LINES } from './messages.ts';
import { ProgramRun, type Line } from './program-run.ts';

const FIRST = 'sine-on-ranks';

/** Returns what a link to the playground asks for: `#example=NAME`, or `#code=…` with a shared program. */
function asked(): { readonly name: string; readonly source: string } | undefined {
  const words = new URLSearchParams(location.hash.slice(1));
  const name = words.get('example') ?? FIRST;
  const code = words.get('code');
  const shared = code === null ? null : lzString.decompressFromEncodedURIComponent(code);
  const source = shared === null || shared === '' ? examples.get(name) : shared;
  return source === undefined ? undefined : { name, source };
}

/**
 * Runs programs of the guides, and of the reader. They run in workers, can be stopped at once, and can be shared by a
 * link.
 */
export const Playground = defineComponent({
  name: 'Playground',
  props: {
    /** The program of a page. Without it, the reader or a link chooses one. */
    example: { type: String, default: undefined },
  },
  setup(props) {
    const name = ref(props.example ?? FIRST);
    const size = ref(2);
    const { device, control: deviceControl } = useDeviceChoice();
    const source = ref(examples.get(name.value) ?? '');
    const lines = shallowRef<readonly Line[]>([]);
    const isRunning = ref(false);
    const said = ref('');
    const place = ref<HTMLElement>();
    const output = ref<HTMLElement>();
    let editor: EditorView | undefined;
    let run: ProgramRun | undefined;

    const show = (text: string): void => {
      source.value = text;
      editor?.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
    };
    /** The lines that the next frame shows, because a program can print faster than a page draws. */
    let waiting: Line[] = [];
    let printed = 0;
    const draw = (): void => {
      lines.value = [...lines.value, ...waiting].slice(-MOST_LINES);
      waiting = [];
      void nextTick(() => output.value?.scrollTo(0, output.value.scrollHeight));
    };
    const print = (line: Line): void => {
      printed += 1;
      if (waiting.push(line) === 1) requestAnimationFrame(draw);
      if (waiting.length > MOST_LINES) waiting.shift();
    };
    const stop = (): void => run?.stop('Stopped.');

    const start = async (): Promise<void> => {
      stop();
      lines.value = [];
      waiting = [];
      printed = 0;
      said.value = 'Running.';
      isRunning.value = true;
      const started = new ProgramRun(print);
      run = started;
      try {
        await started.start(source.value, size.value, device.value);
      } catch (error) {
        print({ level: 'error', text: error instanceof Error ? error.message : String(error) });
        started.stop();
      }
      await started.ended;
      if (run !== started) return;
      draw();
      isRunning.value = false;
      said.value = endText(printed);
    };

    const share = async (): Promise<void> => {
      const code = lzString.compressToEncodedURIComponent(source.value);
      const link = new URL(`${withBase('/explore/playground')}#code=${code}`, location.href);
      if (props.example === undefined) history.replaceState(null, '', link);
      try {
        await navigator.clipboard.writeText(link.href);
        said.value = 'The link is copied.';
      } catch {
        location.assign(link);
        said.value = "The link is in the browser's address.";
      }
    };

    watch(name, (next) => show(examples.get(next) ?? ''));
    const follow = (): void => {
      const found = asked();
      if (found === undefined) return;
      name.value = found.name;
      show(found.source);
    };
    onMounted(() => {
      if (place.value !== undefined) {
        editor = createEditor(
          place.value,
          source.value,
          (text) => {
            source.value = text;
          },
          () => void start(),
        );
      }
      if (props.example === undefined) {
        follow();
        addEventListener('hashchange', follow);
      } else void start();
    });
    onBeforeUnmount(() => {
      removeEventListener('hashchange', follow);
      stop();
      editor?.destroy();
    });

    return (): VNode =>
      explorer(props.example === undefined ? 'Playground' : `The program ${props.example}`, [
        h('div', { class: 'controls' }, [
          props.example === undefined ? choice('Program', name, [...examples.keys()]) : null,
          choice('Ranks', size, [1, 2, 3, 4, 6, 8]),
          deviceControl(),
        ]),
        h('div', { class: 'buttons' }, [
          isRunning.value
            ? h('button', { type: 'button', class: 'primary', onClick: stop }, 'Stop')
            : h('button', { type: 'button', class: 'primary', onClick: () => void start() }, 'Run'),
          h(
            'button',
            { type: 'button', onClick: () => show(examples.get(name.value) ?? '') },
            'Reset',
          ),
          h('button', { type: 'button', onClick: () => void share() }, 'Share'),
          h('span', { class: 'said', role: 'status' }, said.value),
        ]),
        h('div', { ref: place, class: 'editor' }),
        h(
          'div',
          {
            ref: output,
            class: 'output',
            tabindex: 0,
            role: 'log',
            'aria-label': 'Output of the program',
          },
          lines.value.length === 0
            ? h('p', { class: 'empty' }, 'Run prints here.')
            : lines.value.map(({ level, text }) => h('pre', { class: level }, text)),
        ),
      ]);
  },
});

function endText(printed: number): string {
  if (printed > MOST_LINES) return `Ended. The last ${MOST_LINES} lines are here.`;
  return `Ended after ${printed} ${printed === 1 ? 'line' : 'lines'}.`;
}
