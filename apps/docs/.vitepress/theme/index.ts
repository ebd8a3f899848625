// The theme uses the fonts of the reader's system, so that no text moves when a web font arrives.
import DefaultTheme from 'vitepress/theme-without-fonts';
import type { Theme } from 'vitepress';
import { defineAsyncComponent, type Component } from 'vue';
import { RunExample } from '../../playground/run-example.ts';
import { SiteLayout } from './site-layout.ts';
import './style.css';

/** The components that pages use by these names. */
const components = {
  LiveLanguage: defineAsyncComponent(
    async () => (await import('../../live/language/live-language.ts')).LiveLanguage,
  ),
  PipelineExplorer: defineAsyncComponent(
    async () => (await import('../../explorers/pipeline-explorer.ts')).PipelineExplorer,
  ),
  CollectiveExplorer: defineAsyncComponent(
    async () => (await import('../../explorers/collective-explorer.ts')).CollectiveExplorer,
  ),
  LayoutExplorer: defineAsyncComponent(
    async () => (await import('../../explorers/layout-explorer.ts')).LayoutExplorer,
  ),
  MemoryExplorer: defineAsyncComponent(
    async () => (await import('../../explorers/memory-explorer.ts')).MemoryExplorer,
  ),
  PlanExplorer: defineAsyncComponent(
    async () => (await import('../../explorers/plan-explorer.ts')).PlanExplorer,
  ),
  Benchmark: defineAsyncComponent(
    async () => (await import('../../benchmark/benchmark.ts')).Benchmark,
  ),
  Playground: defineAsyncComponent(
    async () => (await import('../../playground/playground.ts')).Playground,
  ),
  RunExample,
  InstallCommand: defineAsyncComponent(
    async () => (await import('./install-command.ts')).InstallCommand,
  ),
  LiveTraining: defineAsyncComponent(
    async () => (await import('../../live/points/live-training.ts')).LiveTraining,
  ),
  FirstTraining: defineAsyncComponent(
    async () => (await import('../../live/points/first-training.ts')).FirstTraining,
  ),
  LiveComparison: defineAsyncComponent(
    async () => (await import('../../live/comparison/live-comparison.ts')).LiveComparison,
  ),
  LiveExperts: defineAsyncComponent(
    async () => (await import('../../live/experts/live-experts.ts')).LiveExperts,
  ),
  LivePipeline: defineAsyncComponent(
    async () => (await import('../../live/pipeline/live-pipeline.ts')).LivePipeline,
  ),
  LiveLayer: defineAsyncComponent(
    async () => (await import('../../live/tensor-parallel/live-layer.ts')).LiveLayer,
  ),
  LiveRing: defineAsyncComponent(
    async () => (await import('../../live/context-parallel/live-ring.ts')).LiveRing,
  ),
  LiveHang: defineAsyncComponent(
    async () => (await import('../../live/hang/live-hang.ts')).LiveHang,
  ),
  LiveServing: defineAsyncComponent(
    async () => (await import('../../live/serving/live-serving.ts')).LiveServing,
  ),
  LiveServers: defineAsyncComponent(
    async () => (await import('../../live/servers/live-servers.ts')).LiveServers,
  ),
} satisfies Readonly<Record<string, Component>>;

export default {
  extends: DefaultTheme,
  Layout: SiteLayout,
  enhanceApp({ app, siteData }) {
    if (!import.meta.env.SSR && import.meta.env.PROD && !crossOriginIsolated) {
      void import('./isolate-page.ts').then(({ isolatePage }) => isolatePage(siteData.value.base));
    }
    // Each component is loaded only by the pages that use it.
    for (const [name, component] of Object.entries(components)) app.component(name, component);
  },
} satisfies Theme;
