import { createApp } from 'vue'
import App from './App.vue'
import { createSite, siteKey } from './state/site'
import './style/base.css'
import './style/controls.css'
import './style/layout.css'
import './style/tables.css'

const site = createSite()
site.run()
createApp(App).provide(siteKey, site).mount('#page')
