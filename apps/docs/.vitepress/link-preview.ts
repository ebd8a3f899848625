import type { HeadConfig, PageData } from 'vitepress';

/** Describes a page in the words of Open Graph, which messengers and search engines show of a link to it. */
export function linkPreview({ title, description, relativePath }: PageData): HeadConfig[] {
  const isArticle = relativePath.startsWith('learn/') || relativePath.startsWith('guides/');
  const properties = {
    'og:site_name': 'Shardwise',
    'og:type': isArticle ? 'article' : 'website',
    'og:title': title,
    'og:description': description,
    'twitter:card': 'summary',
  };
  return Object.entries(properties)
    .filter(([, content]) => content !== '')
    .map(([property, content]) => ['meta', { property, content }]);
}
