export { openCluster, openModel } from './files/open.ts';
