import DefaultTheme from 'vitepress/theme';
import type { Theme } from 'vitepress';
import { defineAsyncComponent } from 'vue';
import { SiteLayout } from './site-layout.ts';
import './style.css';

export default {
  extends: DefaultTheme,
  Layout: SiteLayout,
  enhanceApp({ app }) {
    // Each is loaded by the pages that show it.
    app.component(
      'PipelineExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/pipeline-explorer.ts')).PipelineExplorer,
      ),
    );
    app.component(
      'CollectiveExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/collective-explorer.ts')).CollectiveExplorer,
      ),
    );
    app.component(
      'LayoutExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/layout-explorer.ts')).LayoutExplorer,
      ),
    );
    app.component(
      'MemoryExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/memory-explorer.ts')).MemoryExplorer,
      ),
    );
    app.component(
      'Benchmark',
      defineAsyncComponent(async () => (await import('../../benchmark/benchmark.ts')).Benchmark),
    );
    app.component(
      'Playground',
      defineAsyncComponent(async () => (await import('../../playground/playground.ts')).Playground),
    );
    app.component(
      'LiveTraining',
      defineAsyncComponent(async () => (await import('../../live/live-training.ts')).LiveTraining),
    );
  },
} satisfies Theme;
