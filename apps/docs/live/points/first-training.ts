import { defineComponent, h, ref, type VNode } from 'vue';
import { lineChart } from '../line-chart.ts';
import { useLiveRun } from '../use-live-run.ts';
import { fitDrawing } from './fit-drawing.ts';
import type { PointLook, PointTask } from './point-task.ts';

const STEPS = 200;

/** A small training for the home page: two ranks learn to separate two spirals. It has no settings. */
export const FirstTraining = defineComponent({
  name: 'FirstTraining',
  setup() {
    const size = ref(2);
    const { state, smallFrame } = useLiveRun<PointLook>({
      title: 'A training on two ranks',
      size,
      options: () => ({
        size: size.value,
        steps: STEPS,
        seed: 1,
        task: { model: 'spirals', strategy: 'ddp' } satisfies PointTask,
        script: () => new Worker(new URL('./point-rank.ts', import.meta.url), { type: 'module' }),
      }),
    });

    return (): VNode =>
      smallFrame([
        h('div', { class: 'beside small' }, [
          h('figure', [
            h('figcaption', 'Points of 2 ranks'),
            fitDrawing('spirals', size.value, state.value?.ranks[0]?.snapshot?.look.values ?? []),
          ]),
          lineChart({
            title: 'Loss',
            xTitle: 'steps',
            most: STEPS,
            isLogarithmic: true,
            yRange: [0.001, 1],
            isSmall: true,
            lines: [
              {
                name: 'loss',
                points: (state.value?.losses ?? []).map((loss, index) => [index + 1, loss]),
              },
            ],
          }),
        ]),
      ]);
  },
});
