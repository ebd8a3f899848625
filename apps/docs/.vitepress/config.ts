import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type DefaultTheme } from 'vitepress';
import { isolation } from './isolation.ts';
import { accessibleMarkup } from './markup.ts';
import { linkPreview } from './link-preview.ts';
import { writeMarkdownCopies } from './markdown-copies.ts';
import { referenceSidebar } from './reference-sidebar.ts';
import { search } from './search.ts';
import { sections } from './sections.ts';
import { tokenClasses } from './token-classes.ts';

const pages = join(import.meta.dirname, '..', 'pages');

/** Returns the generated pages of a folder, in the order of their names, with their own titles. */
function generated(folder: string): DefaultTheme.SidebarItem[] {
  return readdirSync(join(pages, folder))
    .filter((name) => name.endsWith('.md') && name !== 'index.md')
    .toSorted()
    .map((name) => {
      const [, title = name] =
        /^title: "(.*)"$/m.exec(readFileSync(join(pages, folder, name), 'utf8')) ?? [];
      return {
        text: title.replaceAll('\\"', '"'),
        link: `/${folder}/${name.replace(/\.md$/, '')}`,
      };
    });
}

const reference: DefaultTheme.SidebarItem[] = [
  {
    text: 'Reference',
    items: [
      { text: 'Where to look', link: '/reference/' },
      { text: 'All names', link: '/reference/names' },
      { text: 'All types', link: '/reference/types' },
      { text: 'Errors', link: '/reference/generated/errors' },
      { text: 'Command line', link: '/reference/generated/command-line' },
      { text: 'Environment variables', link: '/reference/environment' },
      { text: 'Limits of backends', link: '/reference/generated/limits' },
      { text: 'Browsers', link: '/reference/browsers' },
    ],
  },
  ...referenceSidebar(pages),
];

const howItWorks: DefaultTheme.SidebarItem[] = [
  { text: 'How it works', items: generated('how-it-works') },
  {
    text: 'Decisions',
    link: '/how-it-works/decisions/',
    // The section opens by itself if one of its pages is shown.
    collapsed: true,
    items: generated('how-it-works/decisions'),
  },
];

/** The path of the site on its host. A host of projects has each project in a folder. */
const base = process.env['SHARDWISE_DOCS_BASE'] ?? '/';

export default defineConfig({
  base,
  title: 'Shardwise',
  description: 'Distributed deep-learning training for TypeScript',
  lang: 'en',
  srcDir: 'pages',
  cleanUrls: true,
  // Pages of the reference are large. A phone loads only what its reader opens, and not every page that is linked.
  router: { prefetchLinks: false },

  head: [
    ['link', { rel: 'icon', href: `${base}mark.svg`, type: 'image/svg+xml' }],
    ['meta', { name: 'theme-color', content: '#0f766e' }],
  ],
  themeConfig: {
    logo: { src: '/mark.svg', alt: '' },
    nav: [
      { text: 'Learn', link: '/learn/', activeMatch: '^/learn/' },
      { text: 'Guides', link: '/guides/', activeMatch: '^/guides/' },
      { text: 'Explore', link: '/explore/', activeMatch: '^/explore/' },
      { text: 'Reference', link: '/reference/', activeMatch: '^/reference/' },
      { text: 'How it works', link: '/how-it-works/architecture', activeMatch: '^/how-it-works/' },
    ],
    sidebar: {
      '/learn/': sections.learn,
      '/guides/': sections.guides,
      '/explore/': sections.explore,
      '/reference/': reference,
      '/how-it-works/': howItWorks,
      '/changelog': howItWorks,
    },
    outline: { level: [2, 3] },
    editLink: {
      pattern: 'https://github.com/shardwise/shardwise/edit/main/apps/docs/pages/:path',
      text: 'Edit this page',
    },
    search,
    socialLinks: [
      {
        icon: {
          svg: '<svg viewBox="0 0 24 24" xmlns="http://www.w3.org/2000/svg"><path d="M8 6 2 12l6 6M16 6l6 6-6 6" fill="none" stroke="currentColor" stroke-width="2"/></svg>',
        },
        link: 'https://github.com/shardwise/shardwise',
        ariaLabel: 'Source code',
      },
    ],
    footer: {
      message: `MIT licence · <a href="${base}changelog">Changelog</a> · <a href="${base}llms.txt">llms.txt</a>`,
    },
  },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    codeTransformers: [tokenClasses],
    config: accessibleMarkup,
  },
  // The packages are imported as sources, so that pages need no build of them.
  vite: {
    resolve: {
      // Programs import the library in the same way as scripts of `shardwise run`.
      alias: [{ find: /^shardwise$/, replacement: 'shardwise/browser' }],
      conditions: ['@shardwise/source', 'module', 'browser', 'development|production'],
    },
    ssr: {
      resolve: { conditions: ['@shardwise/source', 'module', 'node', 'development|production'] },
    },
    // All components are made by setup functions, so pages need no code for Vue's options API.
    define: {
      __VUE_OPTIONS_API__: 'false',
      // Tests build the site so that pages complain where the served HTML differs from what their components draw.
      __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: String(
        process.env['SHARDWISE_DOCS_DETAILS'] === '1',
      ),
    },
    // VitePress does not send the headers of `server.headers` with its pages.
    plugins: [
      {
        name: 'isolation',
        configureServer: ({ middlewares }) => {
          middlewares.use((_request, response, next) => {
            response.setHeaders(new Map(Object.entries(isolation)));
            next();
          });
        },
      },
    ],
    // In workers, classes keep their names, because errors and summaries contain them. Pages show messages of errors,
    // and no names.
    worker: { format: 'es', rolldownOptions: { output: { keepNames: true } } },
    build: { target: 'es2022', chunkSizeWarningLimit: 1500 },
  },
  transformHead: ({ pageData }) => linkPreview(pageData),
  async buildEnd(site) {
    await writeMarkdownCopies(site);
  },
});
